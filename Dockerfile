# One image for every role: `sapwood engine`, `sapwood gateway`, `sapwood code`.
# TORCH_INDEX may name a package index with a CPU-only build of torch, which is much smaller:
#   docker compose build --build-arg TORCH_INDEX=URL
FROM python:3.11-slim

ARG TORCH_INDEX=""
ARG EXTRAS=""

RUN apt-get update \
 && apt-get install --yes --no-install-recommends gcc git libc6-dev \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home sapwood

WORKDIR /app
RUN pip install --no-cache-dir ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} 'torch>=2.13,<2.14'
COPY pyproject.toml README.md LICENSE ./
COPY engine engine
COPY gateway gateway
COPY agents agents
COPY tools tools
RUN pip install --no-cache-dir ".${EXTRAS}" && mkdir /models && chown sapwood /models

USER sapwood
ENV SAPWOOD_HOME=/models PYTHONUNBUFFERED=1
ENTRYPOINT ["sapwood"]
CMD ["--help"]
