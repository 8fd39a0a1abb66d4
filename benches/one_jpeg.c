/* Times one JPEG at a time: a whole run of `histeqd FILE --out DIR --quality 90 --devices cpu` beside libjpeg alone, which reads the
 * file, decodes it to planes, encodes them again (progressive if the file was) and writes the result: once in a process of its own, and
 * once in this process, whose memory is warm. They take turns; prints the fewest milliseconds of RUNS runs.
 *
 *     cc -O2 -o /tmp/one_jpeg benches/one_jpeg.c -ljpeg      (libjpeg62-turbo-dev)
 *     chrt -r 1 /tmp/one_jpeg target/release/histeqd /dev/shm/out RUNS FILE.jpg...
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <jpeglib.h>

#define MAX_ROWS (MAX_SAMP_FACTOR * DCTSIZE)

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

/* Sets the encoder up with the decoder's components and sampling factors, and quality 90. */
static void set_up(struct jpeg_compress_struct *to, const struct jpeg_decompress_struct *from) {
    to->image_width = from->image_width;
    to->image_height = from->image_height;
    to->input_components = from->num_components;
    to->in_color_space = from->jpeg_color_space;
    jpeg_set_defaults(to);
    jpeg_set_quality(to, 90, TRUE);
    if (from->progressive_mode) jpeg_simple_progression(to);
    to->raw_data_in = TRUE;
    for (int c = 0; c < from->num_components; ++c) {
        to->comp_info[c].h_samp_factor = from->comp_info[c].h_samp_factor;
        to->comp_info[c].v_samp_factor = from->comp_info[c].v_samp_factor;
    }
}

/* Decodes and encodes a file; returns its megapixels. */
static double through_libjpeg(const char *path, const char *out, int *progressive) {
    struct jpeg_decompress_struct from;
    struct jpeg_compress_struct to;
    struct jpeg_error_mgr errors;
    from.err = to.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&from);
    jpeg_create_compress(&to);
    FILE *in = fopen(path, "rb"), *file = fopen(out, "wb");
    if (!in || !file) fail(path);
    jpeg_stdio_src(&from, in);
    jpeg_stdio_dest(&to, file);
    jpeg_read_header(&from, TRUE);
    from.raw_data_out = TRUE;
    from.out_color_space = from.jpeg_color_space;
    *progressive = from.progressive_mode;
    jpeg_start_decompress(&from);
    set_up(&to, &from);
    jpeg_start_compress(&to, TRUE);
    const JDIMENSION rows = from.max_v_samp_factor * DCTSIZE;
    JSAMPROW lines[MAX_COMPONENTS][MAX_ROWS];
    JSAMPARRAY planes[MAX_COMPONENTS];
    for (int c = 0; c < from.num_components; ++c) {
        const size_t width = (size_t)from.comp_info[c].width_in_blocks * DCTSIZE + MAX_ROWS * DCTSIZE;
        for (int y = 0; y < MAX_ROWS; ++y) lines[c][y] = malloc(width);
        planes[c] = lines[c];
    }
    while (from.output_scanline < from.output_height) {
        jpeg_read_raw_data(&from, planes, rows);
        jpeg_write_raw_data(&to, planes, rows);
    }
    jpeg_finish_compress(&to);
    jpeg_finish_decompress(&from);
    for (int c = 0; c < from.num_components; ++c) {
        for (int y = 0; y < MAX_ROWS; ++y) free(lines[c][y]);
    }
    const double megapixels = from.image_width * 1e-6 * from.image_height;
    jpeg_destroy_compress(&to);
    jpeg_destroy_decompress(&from);
    fclose(in);
    fclose(file);
    return megapixels;
}

/* Runs a program; returns the milliseconds from its start to its end. */
static double timed(char *const *command) {
    const double begin = now();
    const pid_t child = fork();
    if (child == 0) {
        execv(command[0], command);
        fail(command[0]);
    }
    int status;
    if (waitpid(child, &status, 0) < 0 || status) fail(command[0]);
    return now() - begin;
}

int main(int count, char **arguments) {
    int progressive = 0;
    if (count == 4 && strcmp(arguments[1], "--alone") == 0) return through_libjpeg(arguments[2], arguments[3], &progressive) <= 0;
    if (count < 5) {
        fprintf(stderr, "one_jpeg HISTEQD OUT RUNS FILE...\n");
        return 2;
    }
    char *histeqd = arguments[1], *out = arguments[2], alone[4096];
    snprintf(alone, sizeof alone, "%s.jpg", out);
    for (int i = 4; i < count; ++i) {
        char *file = arguments[i];
        char *whole[] = {histeqd, file, "--out", out, "--quality", "90", "--devices", "cpu", "--overwrite", "--quiet", "--no-config", NULL};
        char *bare[] = {"/proc/self/exe", "--alone", file, alone, NULL};
        double best[3] = {1e9, 1e9, 1e9}, megapixels = 0;
        for (int run = atoi(arguments[3]); run > 0; --run) {
            const double first = timed(whole), second = timed(bare), begin = now();
            megapixels = through_libjpeg(file, alone, &progressive);
            const double each[3] = {first, second, now() - begin};
            for (int k = 0; k < 3; ++k) best[k] = each[k] < best[k] ? each[k] : best[k];
        }
        printf("| %.1f MP%s | %.1f | %.1f | %.2f | %.1f | %s\n", megapixels, progressive ? ", progressive" : "", best[0], best[1],
               best[0] / best[1], best[2], file);
    }
    return 0;
}
