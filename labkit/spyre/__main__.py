"""`python -m labkit.spyre SCRIPT [ARGUMENT ...]` runs an unchanged program with the simulated card as `device="spyre"`."""

from .launcher import main

if __name__ == "__main__":
    main()
