# An image with the command `strata`, its library and headers, libtorch, and the examples' programs in /opt/strata:
#
#   docker build -t strata .
#   docker run --rm strata strata launch -n 2 /opt/strata/09_multi_worker
#
# libtorch is where every user of the image can read it; programs find it there by the path in them.
FROM debian:12 AS build
ENV XDG_CACHE_HOME=/opt/cache
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates make python3-pip
COPY . /src
WORKDIR /src
RUN make build CMAKE_ARGS="-DSTRATA_TESTS=OFF -DSTRATA_BENCHMARKS=OFF" && \
    cmake --install build/release --strip --prefix /usr/local && \
    mkdir /opt/strata && find build/release/examples -maxdepth 1 -type f -executable -exec cp {} /opt/strata/ \;

FROM debian:12
ENV XDG_CACHE_HOME=/opt/cache
# What the programs load, and ssh for `strata launch --hosts`. g++ and CMake are not among them: to build programs, start from
# the stage above (`docker build --target build`).
RUN apt-get update && apt-get install -y --no-install-recommends \
      libcurl4 libfarmhash0 libhdf5-103-1 libjpeg62-turbo libopenmpi3 libpng16-16 libssl3 libstdc++6 libucx0 libzip4 zlib1g \
      openssh-client openmpi-bin && \
    rm -rf /var/lib/apt/lists/*
COPY --from=build /opt /opt
COPY --from=build /usr/local /usr/local
RUN ldconfig && strata --version && ! ldd /usr/local/bin/strata /opt/strata/* | grep "not found"
