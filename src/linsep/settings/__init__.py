"""Settings and their meaning: the configuration's sections, fields and limits. No torch here."""
