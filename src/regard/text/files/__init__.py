"""What a file of pairs, labelled texts or texts holds: its encoding, its header, and which columns are wanted."""
