% Times colour_histogram on a file of samples, and writes its counts: octave-cli run.m PICTURE
% HEIGHT WIDTH CHANNELS BITS BINS COUNTS
arguments = argv();
numbers = cellfun(@str2double, arguments(2:6));
[height, width, channels, bits, bins] = num2cell(numbers){:};
types = {'uint8', 'uint16'};
file = fopen(arguments{1});
samples = fread(file, Inf, ['*' types{1 + (bits > 8)}]);
fclose(file);
% Channels of a pixel lie side by side there, and rows one after the other.
picture = permute(reshape(samples, channels, width, height), [3 2 1]);
clock = tic;
counts = colour_histogram(picture, bits, bins);
printf('%.6f\n', toc(clock));
dlmwrite(arguments{7}, counts, 'precision', '%d');
