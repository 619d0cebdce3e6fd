"""Images with texts: the training data of a captioner."""
