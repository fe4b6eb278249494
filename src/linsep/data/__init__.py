"""Images, tasks and scenarios, and the sources that images come from."""
