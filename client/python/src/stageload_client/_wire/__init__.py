"""The API's messages (X_pb2, made from proto/ by setup.py) and its calls."""
