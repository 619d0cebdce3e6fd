"""Models in other people's code: as a scikit-learn estimator, and as calls in the manner of Hugging Face's pipelines."""
