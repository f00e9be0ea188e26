# Everything here is a call of CMake's presets (CMakePresets.json); scripts/bootstrap.sh installs what is missing first.
PRESET ?= release
JOBS   ?= $(shell nproc)
PREFIX ?= /usr/local
BUILD   = build/$(PRESET)
# make test CMAKE_ARGS=-DCMAKE_COMPILE_WARNING_AS_ERROR=ON
CMAKE_ARGS ?=
# make test CTEST_ARGS='-L unit'
CTEST_ARGS ?=
# make demo DEMO_ARGS='--devices cpu:0,cpu:1'
DEMO_ARGS ?=
# make soak SECONDS=3600, make fuzz SECONDS=3600
SECONDS ?= 600

.PHONY: help demo build test check-cuda soak fuzz fuzz-build bench format tidy thread-safety install package docs clean bootstrap
.NOTPARALLEL:

help:
	@echo 'make demo      train MNIST with MirroredStrategy on this machine, and print the test accuracy'
	@echo 'make build     build into $(BUILD); the command is $(BUILD)/strata'
	@echo 'make test      build, and run every test that this machine can run'
	@echo 'make check-cuda   install libtorch with CUDA, build for GPUs, and start programs: they run, or say what is missing'
	@echo 'make soak      run the tests again and again in shuffled order for SECONDS=$(SECONDS)'
	@echo 'make fuzz      give every parser and message random bytes for SECONDS=$(SECONDS) (clang), and count them'
	@echo 'make bench     install the peers, and run the side-by-side benchmarks'
	@echo 'make format    clang-format every source;  make tidy: clang-tidy'
	@echo 'make thread-safety   check with clang that each mutex is held where it must be'
	@echo 'make install   install into PREFIX=$(PREFIX);  make clean: remove build/'
	@echo 'make package   a Debian package and a wheel, in build/package/packages'
	@echo 'make docs      pages of the public headers, in build/docs/html'
	@echo 'PRESET=dev|asan|tsan|cuda chooses another preset, JOBS=n the number of compilers at a time.'

bootstrap:
	@scripts/bootstrap.sh $(filter cuda,$(PRESET))

# Order-only: bootstrap runs every time and says nothing when nothing is missing.
$(BUILD)/build.ninja: CMakePresets.json | bootstrap
	cmake --preset $(PRESET) $(CMAKE_ARGS)
	@touch $@

build: bootstrap $(BUILD)/build.ninja
	cmake --build $(BUILD) -j $(JOBS)

demo: bootstrap $(BUILD)/build.ninja
	cmake --build $(BUILD) -j $(JOBS) --target strata_example_01_mnist_mirrored
	$(BUILD)/examples/01_mnist_mirrored $(DEMO_ARGS)

# One test more than compilers: tests of several processes wait for much of their time.
test: build
	ctest --preset $(PRESET) -j $$(($(JOBS) + 1)) $(CTEST_ARGS)

check-cuda:
	@JOBS=$(JOBS) scripts/check_cuda.sh

soak: build fuzz-build
	scripts/soak.sh $(BUILD) $(SECONDS)

fuzz: fuzz-build
	scripts/fuzz.sh run $(SECONDS)

# With clang alone: without it the targets still run in `make test`, and this says so.
# Configured once: CMake can drop a preset's options when it is given the same compiler again.
fuzz-build:
	@scripts/bootstrap.sh fuzz
	@if command -v clang++ >/dev/null; then \
	  { grep -qs STRATA_FUZZ:BOOL=ON build/fuzz/CMakeCache.txt || cmake --preset fuzz; } && \
	  cmake --build --preset fuzz -j $(JOBS); \
	else echo 'fuzz: no clang++: libFuzzer is left out; make test replays the corpus of every target'; fi

bench: build
	scripts/install_peers.sh
	for suite in step models estimator reduce collective network ps data checkpoint; do $(BUILD)/strata bench $$suite > $(BUILD)/bench_$$suite.jsonl || exit 1; done
	$(BUILD)/strata bench step --case dense --batch 1,16,256 > $(BUILD)/bench_step_dense.jsonl
	$(BUILD)/strata bench step --case transformer --batch 1,64,256 > $(BUILD)/bench_step_transformer.jsonl
	cat $(BUILD)/bench_*.jsonl
	scripts/write_results.py benchmarks $(BUILD)/bench_*.jsonl

format:
	scripts/umbrella.sh
	git ls-files '*.h' '*.cc' '*.inc' | xargs clang-format -i

tidy:
	@$(MAKE) --no-print-directory build PRESET=tidy

# With clang alone, which is installed if it can be. Configured once: see fuzz-build.
thread-safety:
	@scripts/bootstrap.sh clang
	@command -v clang++ >/dev/null || { echo 'thread-safety: no clang++ (Debian: clang)'; exit 1; }
	@grep -qs Werror=thread-safety build/thread-safety/CMakeCache.txt || cmake --preset thread-safety
	cmake --build --preset thread-safety -j $(JOBS)

install: build
	cmake --install $(BUILD) --prefix $(PREFIX)

# Both packages hold the same files: what `cmake --install` puts under /usr.
PACKAGES = build/package/packages
package:
	@rm -rf $(PACKAGES) build/package/tree
	@$(MAKE) --no-print-directory build PRESET=package
	cpack --config build/package/CPackConfig.cmake -B $(PACKAGES)
	@rm -rf $(PACKAGES)/_CPack_Packages
	cmake --install build/package --strip --prefix build/package/tree >/dev/null
	scripts/make_wheel.py build/package/tree $$(sed -n 's/^project(strata VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt) $(PACKAGES)
	scripts/check_packages.sh $(PACKAGES)

docs: bootstrap
	scripts/make_docs.sh build/docs

clean:
	rm -rf build
