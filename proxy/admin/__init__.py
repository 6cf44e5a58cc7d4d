"""The interfaces for operators: four-letter words, HTTP commands, metrics. They read `subject`."""
