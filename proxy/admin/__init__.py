"""What operators ask: four-letter words."""
