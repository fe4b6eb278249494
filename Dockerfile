# linsep on the CPU:
#     docker build -t linsep .
#     docker run --rm -v "$PWD:/work" linsep run --method derpp+bfp
FROM python:3.12-slim AS build
COPY . /source
RUN pip wheel --no-deps --wheel-dir /wheels /source

FROM python:3.12-slim
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu \
      "$(ls /wheels/linsep-*.whl)[plot]" \
    && rm -r /wheels \
    && useradd --create-home linsep
USER linsep
WORKDIR /work
ENTRYPOINT ["linsep"]
CMD ["--help"]
