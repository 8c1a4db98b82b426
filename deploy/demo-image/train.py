"""Train a classifier on the handwritten digits that ship with scikit-learn.

The 1,797 digits are real ones, written by 43 people (UCI ML repository,
"Optical Recognition of Handwritten Digits"); nothing is downloaded.
"""
import os
import time

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

EPOCHS = 30

if os.environ.get("SUANLI_SIMULATED_GPU") == "1":
    print("GPU: simulated, so this trains on the CPU", flush=True)

digits = load_digits()
train_x, test_x, train_y, test_y = train_test_split(
    digits.data / 16.0, digits.target, test_size=0.25, random_state=0, stratify=digits.target)
print(f"digits: {len(train_x)} to learn from, {len(test_x)} to be tested on", flush=True)

model = MLPClassifier(hidden_layer_sizes=(128,), random_state=0)
classes = list(range(10))
begin = time.perf_counter()
for epoch in range(1, EPOCHS + 1):
    model.partial_fit(train_x, train_y, classes=classes)
    if epoch % 10 == 0:
        print(f"epoch {epoch}/{EPOCHS}: loss {model.loss_:.4f}", flush=True)
seconds = time.perf_counter() - begin

accuracy = model.score(test_x, test_y)
print(f"accuracy {accuracy:.4f} on unseen digits", flush=True)
print(f"throughput {EPOCHS * len(train_x) / seconds:.0f} samples/s over {seconds:.2f} s", flush=True)
if accuracy < 0.93:
    raise SystemExit("the accuracy is lower than this network reaches; something is wrong with the machine")
