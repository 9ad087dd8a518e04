package org.resurge.phone;

import android.media.AudioFormat;
import android.media.AudioRecord;
import android.media.MediaRecorder;

/**
 * How loud it is, and nothing else: sound is summed up where it is read and never leaves this class. Python asks for
 * the level since it asked last.
 */
public final class LevelMeter implements Runnable {
    private static final int RATE_HZ = 16000;
    private static final int READ_SAMPLES = 1600;

    private final AudioRecord recorder;
    private volatile boolean ended = false;
    private double squares = 0;
    private int peak = 0;
    private long samples = 0;
    private int failure = 0;

    public LevelMeter() {
        int least = AudioRecord.getMinBufferSize(RATE_HZ, AudioFormat.CHANNEL_IN_MONO, AudioFormat.ENCODING_PCM_16BIT);
        recorder =
                new AudioRecord(
                        MediaRecorder.AudioSource.MIC,
                        RATE_HZ,
                        AudioFormat.CHANNEL_IN_MONO,
                        AudioFormat.ENCODING_PCM_16BIT,
                        Math.max(least, 4 * READ_SAMPLES));
        if (recorder.getState() != AudioRecord.STATE_INITIALIZED) {
            recorder.release();
            throw new IllegalStateException("the microphone cannot be opened");
        }
        recorder.startRecording();
        Thread thread = new Thread(this, "level-meter");
        thread.setDaemon(true);
        thread.start();
    }

    @Override
    public void run() {
        short[] buffer = new short[READ_SAMPLES];
        while (!ended) {
            int read = recorder.read(buffer, 0, buffer.length);
            if (read <= 0) {
                failure = read;
                break;
            }
            add(buffer, read);
        }
        recorder.stop();
        recorder.release();
    }

    private synchronized void add(short[] buffer, int read) {
        for (int i = 0; i < read; i++) {
            int value = Math.abs((int) buffer[i]);
            squares += (double) value * value;
            peak = Math.max(peak, value);
        }
        samples += read;
    }

    /** Samples, root mean square and peak (both 0 to 32768) since the last call, and the error that ended it, if any. */
    public synchronized double[] drain() {
        double level = samples == 0 ? 0 : Math.sqrt(squares / samples);
        double[] answer = {samples, level, peak, failure};
        squares = 0;
        peak = 0;
        samples = 0;
        return answer;
    }

    public void end() {
        ended = true;
    }
}
