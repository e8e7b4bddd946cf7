"""`python -m kibitz.cli` is `kibitz`."""

from kibitz.cli import main

if __name__ == "__main__":  # and not where a worker process imports it again
    main()
