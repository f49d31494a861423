"""Methods and peers side by side under one protocol."""
