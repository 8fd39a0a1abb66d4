% Counts the levels of each channel of a picture in bins, one sample at a time: the published MATLAB
% way, for comparison.
%
% Written for GNU Octave after the description in a course report on colour histograms (M. Glukhova
% and E. Nepovinnykh, "Color histogram", BM40A1400, Lappeenranta, 2017, section 3): width x height x
% channels consecutive steps, each adding to one bin. A bin has floor(levels / bins) levels: the
% number of bins has to divide the number of levels.
%
% picture: height x width x channels; bits: of a sample. Returns bins x channels.
function counts = colour_histogram(picture, bits, bins)
  [height, width, channels] = size(picture);
  counts = zeros(bins, channels);
  levels_per_bin = floor(2 ^ bits / bins);
  for row = 1:height
    for column = 1:width
      for channel = 1:channels
        bin = floor(double(picture(row, column, channel)) / levels_per_bin) + 1;
        counts(bin, channel) = counts(bin, channel) + 1;
      end
    end
  end
end
