/* Open MPI's collectives, for suites collective and network of `strata bench` (README.md). One rank a process, under
 * mpirun:  mpirun -n N strata-peer-mpi FOLDER
 *
 * mpirun gives the harness's lines to rank 0 alone; it passes them on through pipes that it makes in FOLDER, in which
 * the other ranks sleep: a rank that waited in MPI would spin while other systems are measured. Rank 0 answers. */
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int rank, ranks;
static float *values, *result;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double cpu_seconds(void) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static int by_size(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

/* One call. `bytes`: of a rank's tensor; of the gathered one for all_gather. */
static void call(const char* operation, long bytes) {
  const int count = (int)(bytes / (long)sizeof(float));
  if (strcmp(operation, "all_reduce") == 0) {
    MPI_Allreduce(values, result, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  } else if (strcmp(operation, "all_reduce_in_place") == 0) {
    MPI_Allreduce(MPI_IN_PLACE, result, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  } else if (strcmp(operation, "broadcast") == 0) {
    MPI_Bcast(result, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
  } else if (strcmp(operation, "all_gather") == 0) {
    MPI_Allgather(values, count / ranks, MPI_FLOAT, result, count / ranks, MPI_FLOAT, MPI_COMM_WORLD);
  } else if (strcmp(operation, "barrier") == 0) {
    MPI_Barrier(MPI_COMM_WORLD);
  } else {
    fprintf(stderr, "got operation %s\n", operation);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
}

static void fill(float value, long bytes) {
  for (long i = 0; i < bytes / (long)sizeof(float); ++i) values[i] = result[i] = value;
}

/* Sums must be right, and timed calls add zeros. */
static void check(const char* operation, long bytes) {
  const long last = bytes / (long)sizeof(float) - 1;
  fill((float)(rank + 1), bytes);
  call(operation, bytes);
  const float sum = (float)(ranks * (ranks + 1) / 2);
  if (strncmp(operation, "all_reduce", 10) == 0 && (result[0] != sum || result[last] != sum)) {
    fprintf(stderr, "%s of %ld bytes is %g, not %g\n", operation, bytes, result[0], sum);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  fill(0, bytes);
}

static double run(const char* operation, long bytes, long repeats) {
  static char checked[256];
  char what[256];
  snprintf(what, sizeof what, "%s %ld", operation, bytes);
  if (strcmp(what, checked) != 0) check(operation, bytes);
  strcpy(checked, what);
  call(operation, bytes);
  double* times = malloc((size_t)repeats * sizeof(double));
  double before = now();
  for (long i = 0; i < repeats; ++i) {
    call(operation, bytes);
    const double after = now();
    times[i] = after - before;
    before = after;
  }
  qsort(times, (size_t)repeats, sizeof(double), by_size);
  const double median = 0.5 * (times[(repeats - 1) / 2] + times[repeats / 2]);
  free(times);
  return 1e6 * median;
}

/* What one rank has to say of a line: microseconds, or seconds. */
static double answer(const char* line) {
  char operation[64];
  long bytes = 0, repeats = 0;
  const int words = sscanf(line, "%63s %ld %ld", operation, &bytes, &repeats);
  if (words == 1 && strcmp(operation, "cpu") == 0) return cpu_seconds();
  const long largest = 64L << 20;
  if (words != 3 || bytes < (long)sizeof(float) || bytes > largest || repeats < 1) {
    fprintf(stderr, "got line %s\n", line);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  return run(operation, bytes, repeats);
}

static FILE* open_pipe(const char* folder, int to, const char* mode) {
  char path[4096];
  snprintf(path, sizeof path, "%s/rank-%d", folder, to);
  if (rank == 0 && mkfifo(path, 0600) != 0 && errno != EEXIST) perror(path);
  MPI_Barrier(MPI_COMM_WORLD);
  FILE* pipe = rank == 0 || rank == to ? fopen(path, mode) : NULL;
  if ((rank == 0 || rank == to) && pipe == NULL) {
    perror(path);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  return pipe;
}

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody would end it in a network namespace whose links are gone */
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc != 2) {
    fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const size_t largest = (size_t)64 << 20;
  if (posix_memalign((void**)&values, 4096, largest) != 0 || posix_memalign((void**)&result, 4096, largest) != 0)
    MPI_Abort(MPI_COMM_WORLD, 2);
  memset(values, 0, largest);
  memset(result, 0, largest);

  FILE** others = calloc((size_t)ranks, sizeof(FILE*));
  FILE* input = stdin;
  for (int to = 1; to < ranks; ++to) {
    FILE* pipe = open_pipe(argv[1], to, rank == 0 ? "w" : "r");
    if (rank == 0) others[to] = pipe;
    if (rank == to) input = pipe;
  }
  for (int i = 0; i < 3; ++i) call("barrier", 0);
  if (rank == 0) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",\n")] = 0;
    printf("ready %s\n", version);
    fflush(stdout);
  }
  char line[256];
  while (fgets(line, sizeof line, input) != NULL) {
    for (int to = 1; rank == 0 && to < ranks; ++to) {
      fputs(line, others[to]);
      fflush(others[to]);
    }
    double mine = answer(line), all = 0;
    MPI_Reduce(&mine, &all, 1, MPI_DOUBLE, strncmp(line, "cpu", 3) == 0 ? MPI_SUM : MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
      printf("ok %.9g\n", all);
      fflush(stdout);
    }
  }
  for (int to = 1; rank == 0 && to < ranks; ++to) fclose(others[to]);
  MPI_Finalize();
  return 0;
}
