"""`python -m services.operator_cli` is `sluice`."""

from services.operator_cli.main import main

if __name__ == "__main__":
    main()
