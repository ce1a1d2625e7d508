"""The values that everything else is made of. Imports torch and numpy only."""
