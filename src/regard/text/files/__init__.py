"""The layout of files of pairs, labelled texts or texts: their encoding, their header, and the columns to read."""
