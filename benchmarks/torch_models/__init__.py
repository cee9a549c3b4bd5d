"""Models of torchvision and transformers under ``torch.compile``: eager, inductor and ours."""
