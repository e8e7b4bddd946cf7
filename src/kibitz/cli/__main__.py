"""Run `kibitz` as `python -m kibitz.cli`."""

from kibitz.cli import main

if __name__ == "__main__":  # worker processes also import this module
    main()
