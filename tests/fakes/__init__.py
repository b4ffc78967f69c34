"""Hand-written fakes of the ports, one file each. Fakes and real adapters run the same suites in `tests/contract`."""
