"""Sessions for reading: listed, shown, written as OpenAI messages or as one HTML page. No file is changed."""
