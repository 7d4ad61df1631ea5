# In VS Code: provider "OpenAI Compatible", with the same three values.
cline auth openai-compatible --apikey unused --modelid MODEL --baseurl http://127.0.0.1:8080/v1
