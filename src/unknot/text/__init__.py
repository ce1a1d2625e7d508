"""Text: how it becomes numbers, and the files of language models that say how."""
