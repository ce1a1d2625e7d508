"""Language models from files: GGUF, folders of Hugging Face's, llama2.c's; into definitions of our own."""
