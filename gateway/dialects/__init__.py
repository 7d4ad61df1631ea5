"""Wire formats: pure modules from a request body to the one internal `Conversation`."""
