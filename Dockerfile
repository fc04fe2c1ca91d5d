# docker build -t pdevae . && docker run --rm -p 8888:8888 pdevae      # JupyterLab on the explorer; the link is printed
# docker run --rm -v "$PWD/build:/pdevae/build" pdevae ./run_all.sh    # every notebook, the report under build/report
FROM python:3.11-slim-bookworm
RUN apt-get update && apt-get install -y --no-install-recommends git && rm -rf /var/lib/apt/lists/*
WORKDIR /pdevae
COPY requirements.lock pyproject.toml README.md LICENSE ./
COPY lib ./lib
RUN python3 lib/make_environment.py
COPY . .
EXPOSE 8888
CMD [".venv/bin/python", "-m", "jupyterlab", "--ip=0.0.0.0", "--allow-root", "--no-browser", "notebooks/00_explore.ipynb"]
