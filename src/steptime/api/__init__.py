"""What ``import steptime`` offers: the functions that the command line's verbs call too."""
