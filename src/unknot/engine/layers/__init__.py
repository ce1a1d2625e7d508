"""Rules for layers: what each does to a stack of models, and a model as a list of such rules."""
