# What a model might write when asked: "How do the penguins differ, and can flipper length tell their weight?"
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

penguins = pd.read_csv("penguins.csv")
print(f"{len(penguins)} rows, {penguins.isna().any(axis=1).sum()} of them incomplete")

clean = penguins.dropna(subset=["flipper_length_mm", "body_mass_g", "sex"])
summary = (
    clean.groupby(["species", "sex"])
    .agg(
        count=("body_mass_g", "size"),
        mass_g=("body_mass_g", "mean"),
        flipper_mm=("flipper_length_mm", "mean"),
        bill_mm=("bill_length_mm", "mean"),
    )
    .round(1)
)
summary.to_csv("summary.csv")

slope, intercept = np.polyfit(clean["flipper_length_mm"], clean["body_mass_g"], 1)
predicted = slope * clean["flipper_length_mm"] + intercept
explained = (
    1
    - ((clean["body_mass_g"] - predicted) ** 2).sum()
    / (clean["body_mass_g"] - clean["body_mass_g"].mean()).pow(2).sum()
)
print(f"body mass = {slope:.1f} g/mm x flipper length {intercept:+.0f} g, R2 = {explained:.2f}")

figure, axes = plt.subplots(figsize=(8, 5))
for species, group in clean.groupby("species"):
    axes.scatter(group["flipper_length_mm"], group["body_mass_g"], s=18, alpha=0.7, label=species)
span = np.array([clean["flipper_length_mm"].min(), clean["flipper_length_mm"].max()])
axes.plot(span, slope * span + intercept, color="black", linewidth=1, label="linear fit")
axes.set(xlabel="flipper length (mm)", ylabel="body mass (g)", title="Palmer penguins")
axes.legend()
figure.tight_layout()
figure.savefig("chart.png", dpi=120)
plt.close(figure)

summary
