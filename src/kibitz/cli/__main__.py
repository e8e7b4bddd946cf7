"""Run `kibitz` as `python -m kibitz.cli`."""

from kibitz.cli import main

if __name__ == "__main__":  # a worker process imports this module too
    main()
