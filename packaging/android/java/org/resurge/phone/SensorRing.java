package org.resurge.phone;

import android.hardware.Sensor;
import android.hardware.SensorEvent;
import android.hardware.SensorEventListener;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * Takes a sensor's events without calling Python for each: a callback into Python costs most of a millisecond, a
 * phone delivers up to 400 a second per sensor. The node drains it at each of its turns. When it is full the oldest
 * are overwritten and counted.
 */
public final class SensorRing implements SensorEventListener {
    private final int capacity;
    private final int width;
    private final long[] stamps;
    private final float[] values;
    private int head = 0;
    private int count = 0;
    private long overrun = 0;

    public SensorRing(int capacity, int width) {
        this.capacity = capacity;
        this.width = width;
        this.stamps = new long[capacity];
        this.values = new float[capacity * width];
    }

    @Override
    public synchronized void onSensorChanged(SensorEvent event) {
        stamps[head] = event.timestamp;
        System.arraycopy(event.values, 0, values, head * width, Math.min(width, event.values.length));
        head = (head + 1) % capacity;
        if (count < capacity) {
            count++;
        } else {
            overrun++;
        }
    }

    @Override
    public void onAccuracyChanged(Sensor sensor, int accuracy) {}

    /** Everything since the last call, oldest first: a little-endian long, then width floats, for each event. */
    public synchronized byte[] drain() {
        ByteBuffer out = ByteBuffer.allocate(count * (8 + 4 * width)).order(ByteOrder.LITTLE_ENDIAN);
        int at = (head - count + capacity) % capacity;
        for (int i = 0; i < count; i++) {
            out.putLong(stamps[at]);
            for (int column = 0; column < width; column++) {
                out.putFloat(values[at * width + column]);
            }
            at = (at + 1) % capacity;
        }
        count = 0;
        return out.array();
    }

    /** Events that were overwritten since the ring was made. */
    public synchronized long overrun() {
        return overrun;
    }
}
