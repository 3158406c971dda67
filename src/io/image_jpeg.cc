#include <csetjmp>
// clang-format off
#include <cstdio>  // jpeglib.h wants FILE and size_t
#include <jpeglib.h>
// clang-format on

#include "base/check.h"
#include "io/image_decode.h"

namespace heed {
namespace {

/// libjpeg reports an error by longjmp, which runs no destructors: the functions that call setjmp
/// own nothing.
struct JpegJob {
  jpeg_error_mgr errors;
  jpeg_decompress_struct decoder;
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX] = {};
};

void on_error(j_common_ptr info) {
  JpegJob* job = static_cast<JpegJob*>(info->client_data);
  info->err->format_message(info, job->message);
  std::longjmp(job->jump, 1);
}

/// Level -1 is damaged data, which libjpeg would fill with grey: a truncated file is refused.
void on_message(j_common_ptr info, int level) {
  if (level < 0) {
    on_error(info);
  }
}

bool start(JpegJob& job, const unsigned char* data, unsigned long bytes) {
  if (setjmp(job.jump) != 0) {
    return false;
  }
  jpeg_create_decompress(&job.decoder);  // keeps err and client_data
  jpeg_mem_src(&job.decoder, data, bytes);
  jpeg_read_header(&job.decoder, TRUE);
  if (job.decoder.jpeg_color_space == JCS_GRAYSCALE) {
    job.decoder.out_color_space = JCS_GRAYSCALE;
  } else if (job.decoder.jpeg_color_space != JCS_CMYK && job.decoder.jpeg_color_space != JCS_YCCK) {
    job.decoder.out_color_space = JCS_RGB;
  }
  jpeg_calc_output_dimensions(&job.decoder);
  return true;
}

bool read_rows(JpegJob& job, uint8_t* first) {
  if (setjmp(job.jump) != 0) {
    return false;
  }
  jpeg_start_decompress(&job.decoder);
  const size_t stride = size_t{job.decoder.output_width} * job.decoder.output_components;
  while (job.decoder.output_scanline < job.decoder.output_height) {
    JSAMPROW row = first + job.decoder.output_scanline * stride;
    jpeg_read_scanlines(&job.decoder, &row, 1);
  }
  jpeg_finish_decompress(&job.decoder);
  return true;
}

}  // namespace

Tensor decode_jpeg(std::string_view bytes, const std::string& name, uint64_t max_pixels) {
  JpegJob job{};
  job.decoder.err = jpeg_std_error(&job.errors);
  job.decoder.client_data = &job;
  job.errors.error_exit = on_error;
  job.errors.emit_message = on_message;
  struct Destroyer {
    JpegJob& job;
    ~Destroyer() { jpeg_destroy_decompress(&job.decoder); }
  } destroyer{job};
  check_data(start(job, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()), name,
             "is a corrupt JPEG: {}", job.message);
  const int channels = job.decoder.out_color_components;
  check_data(channels == 1 || channels == 3, name,
             "is a JPEG with {} colour channels (CMYK); save it as RGB", channels);
  Tensor pixels =
      empty_image(job.decoder.output_height, job.decoder.output_width, channels, name, max_pixels);
  check_data(read_rows(job, pixels.data<uint8_t>()), name, "is a corrupt JPEG: {}", job.message);
  return pixels;
}

}  // namespace heed
