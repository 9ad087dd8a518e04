package org.resurge.phone;

import android.content.Context;
import android.hardware.Sensor;
import android.hardware.SensorManager;
import android.hardware.TriggerEvent;
import android.hardware.TriggerEventListener;

/**
 * Android's significant motion: a sensor that sleeps with the processor and wakes it once, when the phone walks, rides or
 * drives. It has to be asked again after each time. A class and not an interface, so Python cannot be its listener.
 */
public final class MotionTrigger extends TriggerEventListener {
    private volatile boolean fired = false;
    private Sensor sensor = null;

    /** Whether this phone has one and it is asked now. */
    public boolean arm(Context context) {
        fired = false;
        SensorManager manager = manager(context);
        sensor = manager.getDefaultSensor(Sensor.TYPE_SIGNIFICANT_MOTION);
        return sensor != null && manager.requestTriggerSensor(this, sensor);
    }

    public void disarm(Context context) {
        if (sensor != null) {
            manager(context).cancelTriggerSensor(this, sensor);
        }
    }

    /** Whether the phone moved since it was armed. */
    public boolean fired() {
        return fired;
    }

    @Override
    public void onTrigger(TriggerEvent event) {
        fired = true;
        Wakes.tell(); // the node starts positions again before the processor sleeps
    }

    private static SensorManager manager(Context context) {
        return (SensorManager) context.getSystemService(Context.SENSOR_SERVICE);
    }
}
