# epigram with the model server and the pipeline. compose.yaml starts it; docs/serving.md explains both.
#   docker build --tag epigram .
# A smaller image has PyTorch's CPU build: put its wheel into a folder `wheels` beside this file before the build.
FROM python:3.11-slim AS wheels
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels . \
    && if [ -d wheels ]; then cp wheels/*.whl /wheels/; fi

FROM python:3.11-slim
# git: every project is a git repository. Its version follows the base image.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends git && rm -rf /var/lib/apt/lists/*
COPY --from=wheels /wheels /wheels
COPY requirements.lock /wheels/
RUN pip install --no-cache-dir --find-links /wheels --constraint /wheels/requirements.lock \
      "$(find /wheels -name 'epigram-*.whl')[pipeline,serve,postgres]" \
    && useradd --create-home --uid 1000 epigram
USER 1000
WORKDIR /home/epigram
EXPOSE 8000
ENTRYPOINT ["epigram"]
CMD ["--help"]
