package org.resurge.phone;

import android.app.Notification;
import android.app.NotificationChannel;
import android.app.NotificationManager;
import android.app.PendingIntent;
import android.content.Context;
import android.content.Intent;
import android.content.pm.PackageManager;
import android.os.Build;
import android.os.Bundle;
import android.util.Log;
import org.kivy.android.PythonActivity;
import org.kivy.android.PythonService;

/**
 * python-for-android's service with three things it lacks: a notification channel a person can see, a foreground type
 * that fits the permissions at hand, and an answer when the system refuses.
 *
 * The manifest names two types. Which one is in force is decided at each start: location when positions are
 * allowed, otherwise health, which needs only the install-time permission for fast sensors. PythonService itself names
 * no type, so Android would take all of the manifest's and kill the service when a permission for one is missing.
 * Neither type has a time limit and both may start after boot; dataSync has and may not.
 */
public class RecordingService extends PythonService {
    private static final String TAG = "resurge";
    private static final String CHANNEL = "recording";
    // ServiceInfo.FOREGROUND_SERVICE_TYPE_LOCATION (API 29) and _HEALTH (API 34), as numbers: the names are newer
    // than the oldest phone we run on.
    private static final int TYPE_LOCATION = 0x8;
    private static final int TYPE_HEALTH = 0x100;

    @Override
    protected void doStartForeground(Bundle extras) {
        if (!show(extras.getString("contentTitle"), extras.getString("contentText"))) {
            stopSelf();
        }
    }

    /** Put this text into the notification, and (again) into the foreground with the best type allowed now. */
    public boolean show(String title, String text) {
        Notification notification = build(title, text);
        if (Build.VERSION.SDK_INT < 29) {
            startForeground(getServiceId(), notification);
            return true;
        }
        if (granted("android.permission.ACCESS_FINE_LOCATION")
                || granted("android.permission.ACCESS_COARSE_LOCATION")) {
            try {
                startForeground(getServiceId(), notification, TYPE_LOCATION);
                return true;
            } catch (RuntimeException refused) { // after boot without background location, say
                Log.w(TAG, "no foreground service of type location: " + refused);
            }
        }
        try {
            startForeground(getServiceId(), notification, Build.VERSION.SDK_INT >= 34 ? TYPE_HEALTH : 0);
            return true;
        } catch (RuntimeException refused) {
            Log.e(TAG, "no foreground service: " + refused);
            return false;
        }
    }

    private boolean granted(String permission) {
        return checkSelfPermission(permission) == PackageManager.PERMISSION_GRANTED;
    }

    private Notification build(String title, String text) {
        Context context = getApplicationContext();
        PendingIntent open =
                PendingIntent.getActivity(
                        context,
                        0,
                        new Intent(context, PythonActivity.class),
                        PendingIntent.FLAG_IMMUTABLE | PendingIntent.FLAG_UPDATE_CURRENT);
        Notification.Builder builder;
        if (Build.VERSION.SDK_INT >= 26) {
            NotificationChannel channel =
                    new NotificationChannel(CHANNEL, "Recording", NotificationManager.IMPORTANCE_LOW);
            channel.setShowBadge(false);
            ((NotificationManager) getSystemService(Context.NOTIFICATION_SERVICE)).createNotificationChannel(channel);
            builder = new Notification.Builder(context, CHANNEL);
        } else {
            builder = new Notification.Builder(context);
        }
        return builder.setContentTitle(title == null || title.isEmpty() ? "Resurge" : title)
                .setContentText(text)
                .setContentIntent(open)
                .setSmallIcon(smallIcon(context))
                .setOngoing(true)
                .setOnlyAlertOnce(true)
                .build();
    }

    /** The status bar takes only the shape of an icon; the launcher's would be a white square there. */
    private static int smallIcon(Context context) {
        int notice = context.getResources().getIdentifier("notice", "drawable", context.getPackageName());
        return notice != 0 ? notice : context.getApplicationInfo().icon;
    }

    /** Android 15 ends services whose type has a time limit this way. Ours have none; if that changes, end in order. */
    public void onTimeout(int startId, int type) {
        Log.e(TAG, "the system ended the service: time limit of type " + type);
        stopSelf();
    }
}
