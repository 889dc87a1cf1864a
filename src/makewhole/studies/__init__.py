"""The paper's experiments on real data: settings, runs, claims, figures. `makewhole study --help`."""
