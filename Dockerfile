# docker build -t bntricks . && docker run --rm -v "$PWD/runs:/demo/runs" bntricks
FROM python:3.11-slim-bookworm

WORKDIR /demo
COPY pyproject.toml constraints.txt README.md LICENSE /source/
COPY src /source/src
# The registry's torch comes with CUDA packages. Any build of the pinned version fits: name an index
# that has a CPU build by --build-arg PIP_EXTRA_INDEX_URL=...
ARG PIP_EXTRA_INDEX_URL
RUN pip install --no-cache-dir -c /source/constraints.txt '/source[all]'

ENTRYPOINT ["bnt"]
CMD ["demo"]
