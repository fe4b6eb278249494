"""Where images come from: one module for each public data set and for each form of your own."""
