package org.resurge.phone;

import android.app.AlarmManager;
import android.app.PendingIntent;
import android.content.BroadcastReceiver;
import android.content.Context;
import android.content.Intent;
import android.os.SystemClock;

/**
 * What ends the sleep of the node's loop: an alarm, or whoever delivers a reading. Its own clock stops while the
 * processor sleeps, so a time limit alone would never come.
 *
 * It is a receiver because Android keeps the processor awake until onReceive returns; by then Python holds a lock.
 */
public final class Wakes extends BroadcastReceiver {
    private static volatile Runnable act = null;

    /** What to call; set by Python. It must take a wake lock before it returns. */
    public static void onWake(Runnable woken) {
        act = woken;
    }

    static void tell() {
        Runnable woken = act;
        if (woken != null) {
            woken.run();
        }
    }

    /** Wake after this long at the latest. Inexact: Android joins it with others' wakes, in Doze up to a quarter of an hour. */
    public static void after(Context context, long milliseconds) {
        AlarmManager alarms = (AlarmManager) context.getSystemService(Context.ALARM_SERVICE);
        alarms.setAndAllowWhileIdle(
                AlarmManager.ELAPSED_REALTIME_WAKEUP, SystemClock.elapsedRealtime() + milliseconds, intent(context));
    }

    public static void cancel(Context context) {
        ((AlarmManager) context.getSystemService(Context.ALARM_SERVICE)).cancel(intent(context));
    }

    private static PendingIntent intent(Context context) {
        return PendingIntent.getBroadcast(
                context,
                0,
                new Intent(context, Wakes.class),
                PendingIntent.FLAG_IMMUTABLE | PendingIntent.FLAG_UPDATE_CURRENT);
    }

    @Override
    public void onReceive(Context context, Intent intent) {
        tell();
    }
}
