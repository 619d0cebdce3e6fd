"""Adapters of models to the interfaces of other libraries: scikit-learn's estimators and Hugging Face's pipelines."""
