"""Labels of texts by a machine: by an encoder's similarity to their names, or by a language model at an endpoint."""
