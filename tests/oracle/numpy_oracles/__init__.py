"""Small checkpoints and the MaxText trees they become, made with numpy alone (make_numpy_oracles.py)."""
