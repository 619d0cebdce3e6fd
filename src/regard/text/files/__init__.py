"""The layout of files of pairs, labelled texts or plain texts: their encoding, their header, and the columns to read."""
