"""The same job on a GPU: needs PyTorch, and scikit-learn for the digits."""
import time

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

EPOCHS = 300

if not torch.cuda.is_available():
    raise SystemExit("PyTorch sees no CUDA device in this instance")
device = torch.device("cuda")
print(f"GPU: {torch.cuda.get_device_name(device)}", flush=True)

digits = load_digits()
split = train_test_split(digits.data / 16.0, digits.target, test_size=0.25, random_state=0, stratify=digits.target)
train_x, test_x = (torch.tensor(a, dtype=torch.float32, device=device) for a in split[:2])
train_y, test_y = (torch.tensor(a, dtype=torch.long, device=device) for a in split[2:])

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)).to(device)
optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
torch.cuda.synchronize()
begin = time.perf_counter()
for _ in range(EPOCHS):
    optimiser.zero_grad()
    torch.nn.functional.cross_entropy(model(train_x), train_y).backward()
    optimiser.step()
torch.cuda.synchronize()
seconds = time.perf_counter() - begin

with torch.no_grad():
    accuracy = (model(test_x).argmax(1) == test_y).float().mean().item()
print(f"accuracy {accuracy:.4f} on unseen digits", flush=True)
print(f"throughput {EPOCHS * len(train_x) / seconds:.0f} samples/s over {seconds:.2f} s", flush=True)
