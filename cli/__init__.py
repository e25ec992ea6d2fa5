"""The command line: `veridical …` starts clusters, asks and tells them things, and proves their histories."""
