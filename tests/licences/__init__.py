"""What Sluice is made of, and under which licences."""
