"""`sluice COMMAND` whose readers wait a second for a part that hangs: python -m tests.faults.impatient COMMAND."""

from services.operator_cli.main import main
from services.query_api.http import linger

if __name__ == "__main__":
    vars(linger)["PATIENCE_S"] = 1.0
    main()
