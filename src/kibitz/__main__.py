"""Run `kibitz` as `python -m kibitz`."""

from kibitz.cli import main

if __name__ == "__main__":  # worker processes import this module and must not call `main`
    main()
