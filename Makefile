# Everything here needs Python only. PYTHON=python3.9 make test runs it with another one.
PYTHON ?= python3

.PHONY: test results comparison bench

test:
	$(PYTHON) -m unittest discover -s tests -t .

# The committed outputs for seeds 1-5, and the pictures; a second run changes no byte.
results:
	$(PYTHON) sim.py --seeds 1-5 --json results/sim.json > results/sim.txt
	$(PYTHON) triage.py --seeds 1-5 --json results/triage.json > results/triage.txt
	$(PYTHON) pagination.py --seeds 1-5 --json results/pagination.json > results/pagination.txt
	$(PYTHON) theory.py --seeds 1-40 > results/theory.txt
	$(PYTHON) charts.py

# Every published figure beside the spread of ours over a thousand groups of five seeds. Takes an hour on two cores.
comparison:
	$(PYTHON) sim.py --replicates 1000 --json results/spread-sim.json > results/comparison.md
	$(PYTHON) triage.py --replicates 1000 >> results/comparison.md
	$(PYTHON) pagination.py --replicates 1000 >> results/comparison.md
	$(PYTHON) charts.py

# Ratios against the same SQL by hand, measured in one run; about three minutes on an otherwise idle machine.
bench:
	$(PYTHON) bench.py --output results/bench.md
